/* The built page, served by src/daemon/requests/ui_files.cc. */
    .section .rodata
    .global divvy_page_html_begin
    .global divvy_page_html_end
    .global divvy_page_script_begin
    .global divvy_page_script_end
    .global divvy_page_style_begin
    .global divvy_page_style_end
    .global divvy_page_icon_begin
    .global divvy_page_icon_end
divvy_page_html_begin:
    .incbin DIVVY_PAGE_HTML
divvy_page_html_end:
    .byte 0
divvy_page_script_begin:
    .incbin DIVVY_PAGE_SCRIPT
divvy_page_script_end:
    .byte 0
divvy_page_style_begin:
    .incbin DIVVY_PAGE_STYLE
divvy_page_style_end:
    .byte 0
divvy_page_icon_begin:
    .incbin DIVVY_PAGE_ICON
divvy_page_icon_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
