/* The exported symbols: one for each row of hooks.inc, each a jump to its hook. So the hooks keep their own names, and
   only the table is exported. Also dlsym, which jumps to libc's dlsym with the caller's return address unchanged, so
   that RTLD_NEXT and RTLD_DEFAULT refer to the caller. */
    .text
#if defined(__x86_64__)
#define EXPORT(symbol)                   \
    .globl symbol;                       \
    .type symbol, @function;             \
    .balign 16;                          \
symbol:                                  \
    endbr64;                             \
    jmp *divvy_entry_##symbol(%rip);      \
    .size symbol, . - symbol
#elif defined(__aarch64__)
#define EXPORT(symbol)                   \
    .globl symbol;                       \
    .type symbol, %function;             \
    .balign 16;                          \
symbol:                                  \
    adrp x16, divvy_entry_##symbol;       \
    ldr x16, [x16, :lo12:divvy_entry_##symbol]; \
    br x16;                              \
    .size symbol, . - symbol
#else
#error "exported symbols are written for x86-64 and AArch64"
#endif
#define HOOK(symbol) EXPORT(symbol);
#define HOOK_PTSZ(symbol) EXPORT(symbol); EXPORT(symbol##_ptsz);
#define TOUCH(symbol) EXPORT(symbol);
#define TOUCH_PTSZ(symbol) EXPORT(symbol); EXPORT(symbol##_ptsz);
#define TOUCH_PTDS(symbol) EXPORT(symbol); EXPORT(symbol##_ptds);
#include "hooks.inc"
#include "nccl_hooks.inc"
#include "nvml_hooks.inc"

    .globl dlsym
    .balign 16
#if defined(__x86_64__)
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    /* divvy_dlsym(handle, name, &answer): answer is {the result or 0; libc's dlsym; the handle to pass to it}. */
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $24, %rsp
    .cfi_adjust_cfa_offset 24
    mov %rsp, %rdx
    call divvy_dlsym
    mov (%rsp), %rax
    mov 8(%rsp), %r11
    mov 16(%rsp), %rdi
    add $24, %rsp
    .cfi_adjust_cfa_offset -24
    pop %rsi
    .cfi_adjust_cfa_offset -8
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jnz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size dlsym, . - dlsym
#else
    .type dlsym, %function
dlsym:
    .cfi_startproc
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    mov x29, sp
    str x1, [sp, #40]
    add x2, sp, #16
    bl divvy_dlsym
    ldr x9, [sp, #16]
    ldr x16, [sp, #24]
    ldr x0, [sp, #32]
    ldr x1, [sp, #40]
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbnz x9, 1f
    br x16
1:  mov x0, x9
    ret
    .cfi_endproc
    .size dlsym, . - dlsym
#endif
    .section .note.GNU-stack,"",%progbits
