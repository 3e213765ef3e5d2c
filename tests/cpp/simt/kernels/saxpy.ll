; saxpy.ll: y = 2.5 x + y where i < n.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %x = load i64, ptr %params
  %py = getelementptr i8, ptr %params, i64 8
  %y = load i64, ptr %py
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %in = icmp slt i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %w = sext i32 %i to i64
  %o = shl i64 %w, 2
  %ax = add i64 %x, %o
  %ay = add i64 %y, %o
  %qx = inttoptr i64 %ax to ptr
  %qy = inttoptr i64 %ay to ptr
  %vx = load float, ptr %qx, align 4
  %vy = load float, ptr %qy, align 4
  %s = call float @llvm.fma.f32(float %vx, float 2.5, float %vy)
  store float %s, ptr %qy, align 4
  br label %end
end:
  ret void
}
declare float @llvm.fma.f32(float, float, float)
