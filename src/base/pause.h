// For loops that wait for another thread without sleeping.
#ifndef RN_BASE_PAUSE_H
#define RN_BASE_PAUSE_H

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
