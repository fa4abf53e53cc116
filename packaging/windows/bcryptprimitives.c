/* Wine 8 has no bcryptprimitives.dll, which Rust's standard library takes its randomness from. For smoke
   tests under Wine alone: Windows brings its own. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len)
{
    return RtlGenRandom(data, (ULONG)len); /* exported as SystemFunction036 */
}
