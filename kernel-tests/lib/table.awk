# table.awk -v kernels="NAMES": stdin has lines of the tables, each with the table's
# name before it (once, boot, expect), then programs. See kernel-tests/table.

function holds(list, kernel,    n, names, i)
{
	n = split(list, names, ",")
	for (i = 1; i <= n; i++)
		if (names[i] == "*" || names[i] == kernel)
			return 1
	return 0
}

function matches(glob, program)
{
	gsub(/[.+^$(){}|\\]/, "\\\\&", glob)
	gsub(/\*/, ".*", glob)
	return program ~ "^" glob "$"
}

# the words of the last line that is about the program as a whole decide, and "some"
# where there are lines about single cases of it
function expected(program, kernel,    i, at, cell)
{
	cell = "pass"
	for (i = 1; i <= n_lines; i++) {
		at = index(cases[i], ":")
		if (!holds(names[i], kernel) || !matches(substr(cases[i], 1, at - 1), program))
			continue
		if (substr(cases[i], at + 1) != "*")
			cell = "some"
		else
			cell = word[expect[i]]
	}
	return cell
}

BEGIN {
	word["refused"] = "refuse"; word["passed-or-refused"] = "some"; word["passed"] = "pass"
}
$1 == "once" { only[$3] = $2; next }
$1 == "boot" {
	for (i = 4; i <= NF; i++)
		if ($i ~ /^kernel-tests\/inside\//) {
			program = $i
			sub(/:.*/, "", program)
			inside[program, $3] = $2
		}
	next
}
$1 == "expect" {
	if ($4 != "skipped") {
		n_lines++; names[n_lines] = $2; cases[n_lines] = $3; expect[n_lines] = $4
	}
	next
}
($1 in only) && only[$1] == "host" { next }
{
	n = split(kernels, kernel, " ")
	row = "| " $1 " |"
	for (i = 1; i <= n; i++) {
		if ($1 in only && !holds(only[$1], kernel[i]))
			cell = "-"
		else if ($1 ~ /^kernel-tests\/inside\// && !(($1, kernel[i]) in inside))
			cell = "-"
		else
			cell = expected($1, kernel[i])
		row = row " " cell " |"
	}
	print row
}
