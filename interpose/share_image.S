/* The bytes of libdivvy_cuda.so, written out by WriteShareLibrary (src/platform/gpu/share_library.cc). */
    .section .rodata
    .global divvy_share_image_begin
    .global divvy_share_image_end
    .balign 16
divvy_share_image_begin:
    .incbin DIVVY_SHARE_LIBRARY
divvy_share_image_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
