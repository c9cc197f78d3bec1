/* The text of the kernels, ended by a zero as cuModuleLoadData wants it. */
    .section .rodata
    .global divvy_burn_kernels
    .balign 16
divvy_burn_kernels:
    .incbin DIVVY_BURN_PTX
    .byte 0
    .section .note.GNU-stack,"",%progbits
