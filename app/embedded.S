// The default model, inside the program: what `runnel run` uses without -m, from any folder.
// Read through embedded_model .. embedded_model_end (app.h); the tensor data keeps its alignment.
    .section .rodata
    .balign 64
    .global embedded_model
    .type embedded_model, @object
embedded_model:
    .incbin "tale-20m-q8_0.gguf"
    .size embedded_model, . - embedded_model
    .global embedded_model_end
    .type embedded_model_end, @object
embedded_model_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
