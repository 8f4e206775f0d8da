// The default model and its draft model, inside the program. `runnel run` uses them without -m, in
// any folder. Read through embedded_model .. embedded_model_end and embedded_draft ..
// embedded_draft_end (app.h); the tensor data keeps its alignment.
    .macro embed name, file
    .balign 64
    .global \name, \name\()_end
    .type \name, @object
\name:
    .incbin "\file"
    .size \name, . - \name
    .type \name\()_end, @object
\name\()_end:
    .byte 0
    .endm

    .section .rodata
    embed embedded_model, tale-20m-q8_0.gguf
    embed embedded_draft, tale-1m-q8_0.gguf
    .section .note.GNU-stack, "", @progbits
