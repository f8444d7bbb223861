// number: 0
// name: a library product with a kernel behind it
// problem: product
// expect: passed library
//
// Most of the work is the library's, and the card says so.
/* plan
def plan(a, b):
    require(a.is_contiguous and b.is_contiguous, "contiguous only")
    y = library("aten.mm", a, b)
    return y
*/
