/* The bytes of the stand-in libraries, written out by WriteEmulation (src/platform/emulation/emulation.cc). */
    .section .rodata
    .global divvy_nvml_image_begin
    .global divvy_nvml_image_end
    .global divvy_cuda_image_begin
    .global divvy_cuda_image_end
    .balign 16
divvy_nvml_image_begin:
    .incbin DIVVY_NVML_STANDIN
divvy_nvml_image_end:
    .byte 0
    .balign 16
divvy_cuda_image_begin:
    .incbin DIVVY_CUDA_STANDIN
divvy_cuda_image_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
