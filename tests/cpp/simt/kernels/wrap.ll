; wrap.ll: An index that may wrap inside a group.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %start = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %i = add i32 %start, %tid
  %w = sext i32 %i to i64
  %low = and i64 %w, 255
  %h = lshr i64 %w, 40
  %h32 = trunc i64 %h to i32
  %o = shl i64 %w, 2
  %big = call i64 @llvm.smin.i64(i64 %o, i64 400)
  %small = call i64 @llvm.smax.i64(i64 %big, i64 0)
  %a = add i64 %in, %small
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %v1 = add i32 %v, %h32
  %t64 = zext i32 %tid to i64
  %to = shl i64 %t64, 2
  %c = add i64 %out, %to
  %qc = inttoptr i64 %c to ptr
  store i32 %v1, ptr %qc, align 4
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
