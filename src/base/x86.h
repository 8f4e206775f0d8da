// Features for which compilers have no common name: clang 14 has none for F16C, gcc 12 none for
// AMX.
// __builtin_cpu_supports("avx2") also says whether the system keeps the wide registers.
#ifndef RN_BASE_X86_H
#define RN_BASE_X86_H

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline bool x86_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// Whether AMX's tiles of bytes are here and the system lets this process use them. A process has to
// ask for the tiles' state (8 KiB of a thread); asking again does no harm.
static inline bool x86_takes_amx_int8(void) {
    enum { OSXSAVE = 27, TILE = 24, INT8 = 25, STATE_CONFIG = 17, STATE_DATA = 18 };
    enum { REQUEST_STATE = 0x1023 }; // ARCH_REQ_XCOMP_PERM
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> OSXSAVE & 1)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> TILE & 1) || !(d >> INT8 & 1))
        return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if (!(a >> STATE_CONFIG & 1) || !(a >> STATE_DATA & 1)) return false;
    return syscall(SYS_arch_prctl, REQUEST_STATE, STATE_DATA) == 0;
}

#endif
#endif
