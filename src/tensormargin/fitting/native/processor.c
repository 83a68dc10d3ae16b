/* What the processor can do: wheels for x86-64 hold these files a second time, compiled for AVX2 (hatch_build.py). */

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Return whether the processor has AVX2, and the operating system keeps its registers. */
int tensormargin_has_avx2(void) {
#ifdef __x86_64__
    unsigned a, b, c, d, kept, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    return (kept & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
#else
    return 0;
#endif
}
