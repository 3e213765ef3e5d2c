// bench/cpp/kernels/more.cu: twenty and more other kernels, as CUDA programmers write them.
