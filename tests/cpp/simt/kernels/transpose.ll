; transpose.ll: A store whose lanes write columns, and rows of threads neighboring elements; threads from a row and a column on do nothing.
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %pw = getelementptr i8, ptr %params, i64 20
  %wide = load i32, ptr %pw
  %ph = getelementptr i8, ptr %params, i64 24
  %high = load i32, ptr %ph
  %tid = call i32 @cucpu.sreg.tid.x()
  %y = call i32 @cucpu.sreg.tid.y()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %x = add i32 %m, %tid
  %right = icmp sge i32 %x, %wide
  br i1 %right, label %end, label %left
left:
  %below = icmp sge i32 %y, %high
  br i1 %below, label %end, label %body
body:
  %row = mul i32 %y, %n
  %i = add i32 %row, %x
  %iw = sext i32 %i to i64
  %io = shl i64 %iw, 2
  %a = add i64 %in, %io
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %column = mul i32 %x, %n
  %j = add i32 %column, %y
  %jw = sext i32 %j to i64
  %jo = shl i64 %jw, 2
  %c = add i64 %out, %jo
  %qc = inttoptr i64 %c to ptr
  store i32 %v, ptr %qc, align 4
  br label %end
end:
  ret void
}
