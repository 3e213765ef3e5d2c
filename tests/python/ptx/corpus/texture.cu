// Textures and surfaces through objects.
extern "C" __global__ void fetches(cudaTextureObject_t t, cudaTextureObject_t u, float4* out, int n) {
  int i = threadIdx.x;
  float4 v = tex2D<float4>(t, i + 0.5f, 1.5f);
  float w = tex1Dfetch<float>(u, i) + tex3D<float>(u, i, 1.f, 2.f) + tex2DLayered<float>(u, i, 1.f, 2) + texCubemap<float>(u, 1.f, 2.f, 3.f);
  uchar4 c = tex2D<uchar4>(u, i, 2.f);
  float4 g = tex2Dgather<float4>(t, i, 2.f, 1);
  g.x += tex2DLod<float4>(t, i, 2.f, 0.f).x;
  out[i] = make_float4(v.x + w, v.y + c.x, v.z + g.x, v.w + g.w);
}

extern "C" __global__ void surfaces(cudaSurfaceObject_t s, float* out, int n) {
  int i = threadIdx.x;
  float v = surf2Dread<float>(s, i * 4, 1, cudaBoundaryModeClamp);
  surf2Dwrite(v + 1, s, i * 4, 0);
  surf1Dwrite(make_int2(i, n), s, i * 8, cudaBoundaryModeZero);
  uchar4 c;
  surf3Dread(&c, s, i * 4, 1, 2);
  out[i] = v + c.y;
}
