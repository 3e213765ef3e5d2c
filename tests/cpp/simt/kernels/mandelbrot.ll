; mandelbrot.ll: A loop that every thread leaves at another round.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %fi = sitofp i32 %i to float
  %c0 = fmul float %fi, 0x3F899999A0000000
  %cx = fadd float %c0, -2.0
  br label %loop
loop:
  %n = phi i32 [0, %0], [%n1, %next]
  %x = phi float [0.0, %0], [%x1, %next]
  %y = phi float [0.0, %0], [%y1, %next]
  %xx = fmul float %x, %x
  %yy = fmul float %y, %y
  %r = fadd float %xx, %yy
  %go = fcmp olt float %r, 4.0
  br i1 %go, label %next, label %done
next:
  %d = fsub float %xx, %yy
  %x1 = fadd float %d, %cx
  %xy = fmul float %x, %y
  %xy2 = fmul float %xy, 2.0
  %y1 = fadd float %xy2, 0.25
  %n1 = add i32 %n, 1
  %more = icmp slt i32 %n1, 100
  br i1 %more, label %loop, label %done
done:
  %result = phi i32 [%n, %loop], [%n1, %next]
  %w = zext i32 %i to i64
  %o = mul i64 %w, 4
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  store i32 %result, ptr %q, align 4
  ret void
}
