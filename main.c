/* freestanding: the C library for 32 bits is seldom installed */
static int call(int n, int a, int b, int c, int d, int e)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result)
			 : "a"(n), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
	return result;
}
static const char payload[] = "\n\037\n\035\n\014service.name\022\015\n\013thirty-two!";
void _start(void)
{
	static const unsigned int head[] = { 0x4c45544f, 0x5854435f, 2, sizeof(payload) - 1, 0, 0 };
	int fd = call(356, (int)"OTEL_CTX", 1, 0, 0, 0); /* memfd_create */
	volatile unsigned int *h;
	char c;

	call(93, fd, 4096, 0, 0, 0);			 /* ftruncate */
	call(3, 0, (int)&c, 1, 0, 0);			 /* read: the test says when */
	/* old mmap, of six arguments in memory */
	{
		int args[] = { 0, 4096, 3, 2, fd, 0 };

		h = (void *)call(90, (int)args, 0, 0, 0, 0);
	}
	for (int i = 0; i < 6; i++)
		h[i] = head[i];
	h[6] = (unsigned int)payload;
	h[7] = 0;
	h[4] = 1000;
	call(172, 0x53564d41, 0, (int)h, 4096, (int)"OTEL_CTX"); /* prctl */
	call(3, 0, (int)&c, 1, 0, 0);
	call(1, 0, 0, 0, 0, 0);				 /* exit */
}
