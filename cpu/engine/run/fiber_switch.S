// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/fiber_switch.S: the context switch of fibers. Callee-saved registers only; floating-point control is never changed by a fiber.
//   void cucpu_fiber_switch(void** save, void* to)   saves the running context, continues `to`
//   cucpu_fiber_resume                               the second half: a signal handler jumps here with `to` in the second argument register
//   cucpu_fiber_entry                                first return address of a fresh fiber: calls entry(argument), which never returns
#if defined(__aarch64__)
        .text
        .p2align 4
        .globl  cucpu_fiber_switch
        .hidden cucpu_fiber_switch
        .type   cucpu_fiber_switch, %function
cucpu_fiber_switch:
        sub     sp, sp, #160
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        .globl  cucpu_fiber_resume
        .hidden cucpu_fiber_resume
cucpu_fiber_resume:
        mov     sp, x1
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        ret
        .size   cucpu_fiber_switch, .-cucpu_fiber_switch

        .p2align 4
        .globl  cucpu_fiber_entry
        .hidden cucpu_fiber_entry
        .type   cucpu_fiber_entry, %function
cucpu_fiber_entry:
        mov     x29, xzr
        mov     x30, xzr
        mov     x0, x20
        blr     x19
        brk     #1
        .size   cucpu_fiber_entry, .-cucpu_fiber_entry
#elif defined(__x86_64__)
        .text
        .p2align 4
        .globl  cucpu_fiber_switch
        .hidden cucpu_fiber_switch
        .type   cucpu_fiber_switch, @function
cucpu_fiber_switch:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        .globl  cucpu_fiber_resume
        .hidden cucpu_fiber_resume
cucpu_fiber_resume:
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        retq
        .size   cucpu_fiber_switch, .-cucpu_fiber_switch

        .p2align 4
        .globl  cucpu_fiber_entry
        .hidden cucpu_fiber_entry
        .type   cucpu_fiber_entry, @function
cucpu_fiber_entry:
        xorl    %ebp, %ebp
        movq    %r13, %rdi
        callq   *%r12
        ud2
        .size   cucpu_fiber_entry, .-cucpu_fiber_entry
#else
#error "the CPU device runs on AArch64 and x86-64"
#endif
        .section .note.GNU-stack, "", %progbits
