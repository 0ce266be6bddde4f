# judge.awk -v boot=NAME -v kernel=NAME -v died=WHY EXPECTATIONS CASES RESULTS
# RESULTS: lines "PROGRAM:CASE <tab> result <tab> reason <tab> output". Prints
# for each line of CASES "guest BOOT PROGRAM:CASE passed|failed|skipped reason".
# A case of which there is no result has failed.

function pattern(glob)
{
	gsub(/[.+^$(){}|\\]/, "\\\\&", glob)
	gsub(/\*/, ".*", glob)
	gsub(/\?/, ".", glob)
	return "^" glob "$"
}

function for_kernel(list,    names, n, i)
{
	n = split(list, names, ",")
	for (i = 1; i <= n; i++)
		if (names[i] == "*" || names[i] == kernel || names[i] == boot)
			return 1
	return 0
}

function expectation(    i, text)
{
	text = $0
	for (i = 1; i <= 3; i++)
		sub(/^[^ \t]+[ \t]*/, "", text)
	if ($3 !~ /^(passed|refused|passed-or-refused|skipped)$/ || text == "") {
		print "kernel-tests/expectations:" FNR ": not understood: " $0 > "/dev/stderr"
		bad = 1
	} else if (for_kernel($1)) {
		n_lines++
		cases_of[n_lines] = pattern($2)
		expect[n_lines] = $3
		holds[n_lines] = text
	}
}

# judged: "result reason" of a case, given what happened
function judged(name, result, reason, output,    i, n, text, must_refuse, all)
{
	all = reason " " output
	for (i = 1; i <= n_lines; i++) {
		if (name !~ cases_of[i])
			continue
		if (expect[i] == "skipped") {
			if (result == "skipped" && index(reason, holds[i]))
				return "skipped " reason
		} else {
			must_refuse = expect[i] == "refused" ? holds[i] : ""
			text[expect[i] == "passed" ? n = 0 : ++n] = holds[i]
		}
	}
	for (i = 1; i <= n; i++)
		if (result != "passed" && index(all, text[i]))
			return "passed refused as expected: " text[i]
	if (must_refuse != "")
		return "failed not refused by \"" must_refuse "\": " result " " reason
	if (result == "passed")
		return "passed"
	if (result == "skipped")
		return "failed skipped, which kernel-tests/expectations does not allow: " reason
	return "failed " (result == "failed" ? "" : result ": ") reason
}

FILENAME == ARGV[1] { if ($0 !~ /^#/ && NF) expectation(); next }
FILENAME == ARGV[2] { order[++n_cases] = $0; next }
{
	split($0, f, "\t")
	seen[f[1]] = f[2]; why[f[1]] = f[3]; said[f[1]] = f[4]
	last = f[1]
}
END {
	if (bad)
		exit 1
	for (i = 1; i <= n_cases; i++) {
		c = order[i]
		if (c in seen && seen[c] != "")
			print "guest", boot, c, judged(c, seen[c], why[c], said[c])
		else if (died != "" && c == last)
			print "guest", boot, c, "failed the guest ended in this case:", died
		else
			print "guest", boot, c, "failed no result:", (died != "" ? died : "the guest did not run it")
	}
}
