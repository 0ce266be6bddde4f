/*
 * compat - a 32-bit program: says "r" on its output and sleeps. Assembly, as the
 * C library for 32 bits is seldom installed.
 */
	.text
	.globl	_start
_start:
	movl	$4, %eax		/* write(1, ready, 1) */
	movl	$1, %ebx
	movl	$ready, %ecx
	movl	$1, %edx
	int	$0x80
again:
	movl	$29, %eax		/* pause() */
	int	$0x80
	jmp	again

	.section .rodata
ready:	.ascii	"r"
	.section .note.GNU-stack, "", @progbits
