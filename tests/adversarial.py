"""Programs like the handed FX cases, written to break a rewrite: writes through views of views, and everything that may
stand where a write can hide. Every one must be served right.
"""

from __future__ import annotations

import operator

import custom_ops
import torch
from fx_oracle import FxCase, Hand
from programs import ar, idx

A = torch.ops.aten
CASES: list[FxCase] = []
k_bump, k_kv, k_swap = custom_ops.k_bump, custom_ops.k_kv_step, custom_ops.k_swap


def _add(style, inputs):
    def register(function):
        CASES.append(FxCase(function.__name__, "adversarial", function, inputs, "", "", style=style, mutated=(0,)))
        return function

    return register


def program(inputs):
    """Captured by Dynamo."""
    return _add("dynamo", inputs)


def graph(inputs):
    """A function that builds the graph by hand."""
    return _add("hand", inputs)


def rows():
    return [ar(3, 4), ar(4)]


@program(lambda: [ar(2, 3, 4), ar(4)])
def view_of_view(x, v):
    y = x[1]
    z = y.t()
    w = z[1:3]
    w[0].copy_(v[:3])
    w[1].add_(1)
    return w, x.sum()


@program(rows)
def ret_views(x, v):
    x[0].add_(v)
    return x[0], x.t(), x.view(-1), x.view(2, 6)


@program(lambda: [ar(3, 4), ar(4)])
def dup_outputs(x, v):
    x.mul_(v)
    y = x + 1
    return x, x, y, y, x.view(3, 4)


@program(rows)
def method_add(x, v):
    x.add_(v, alpha=2).mul_(3).sub_(1)
    return x.sum()


@program(rows)
def copy_bcast(x, v):
    x.copy_(v)
    x[:, 1:3].copy_(v[0])
    return x


@program(lambda: [ar(3, 4, 5), ar(5)])
def setitem_ellipsis(x, v):
    x[..., 1] = 7.0
    x[0, ...] = v
    x[..., ::2, 1:4] = v[1:4]
    x[:, None, 0, :][:, 0] += v
    return x.mean()


@program(lambda: [ar(3, 4, 5), ar(5)])
def setitem_neg(x, v):
    x[-2:, -1] = v
    x[-1, -3:-1, -2] = 0
    return x[-1]


@program(lambda: [ar(3, 4), ar(4)])
def setitem_mask(x, v):
    x[x > 5] = 0
    x[v > 2] if False else None
    x[:, v > 1] = -1.0
    return x


@program(lambda: [ar(3, 4), torch.tensor([2, 0]), ar(2, 4)])
def setitem_index(x, i, v):
    x[i] = v
    x[i, 1] = 3.0
    x[:, i] = v.t()[:3].contiguous().view(3, 2)
    return x


@program(lambda: [ar(3, 4), ar(3, 4)])
def iadd_ops(x, y):
    x += y
    x *= 2
    x -= 1
    x /= 3
    x[0] += 1
    x[1, 2] *= 5
    x[:, 0] //= 2
    return x, y


@program(lambda: [ar(3, 4), ar(3, 4)])
def out_kw(x, y):
    torch.add(x, y, out=x)
    torch.mul(x, y, out=x[:])
    torch.sum(y, 0, out=x[0])
    return x


@program(lambda: [ar(4, 3), ar(3)])
def transposed_cache(x, v):
    k = x.t()
    k[:, 1] = v
    k.add_(1)
    return k


@program(lambda: [ar(3, 4).t(), ar(3)])
def transposed_input(x, v):
    x[1] = v
    x.mul_(2)
    return x.sum(0), x.t()


@program(lambda: [ar(3, 8)[:, ::2], ar(4)])
def strided_input(x, v):
    x[1] = v
    x.add_(1)
    return x


@program(lambda: [ar(3, 4), ar(3, 1)])
def expanded_read(x, y):
    x.add_(y.expand(3, 4))
    e = y.expand(3, 4)
    y.mul_(2)
    return e, x


@program(lambda: [ar(3, 1), ar(3, 4)])
def expanded_local(x, y):
    e = x.expand(3, 4)
    y.mul_(e)
    x.add_(1)
    return e + y, e


@program(lambda: [ar(3, 4), ar(4)])
def dtype_view(x, v):
    b = x.view(torch.int32)
    b[0] = 0
    b[1].bitwise_and_(0x7F000000)
    x[2] = v
    return x.sum(), b


@program(lambda: [ar(4, 8), ar(8)])
def dtype_view_small(x, v):
    b = x.view(torch.uint8)
    b[1, :4] = 0
    x[2] = v
    return b.sum(), x


@program(lambda: [ar(6, 4), ar(4)])
def splits(x, v):
    a, b, c = x.split(2)
    a.add_(1)
    c.copy_(v)
    p, q = b.chunk(2, 1)
    q.zero_()
    r = b.unbind(0)[1]
    r.mul_(3)
    return a, q, x.sum()


@program(lambda: [ar(6, 4), ar(4)])
def tensor_split(x, v):
    a, b = torch.tensor_split(x, 2, 1)
    torch.hsplit(a, 2)[0].fill_(2)
    torch.vsplit(b, 3)[1].neg_()
    x.unflatten(0, (2, 3))[1, 2] = v
    return x.movedim(0, 1)


@program(lambda: [ar(3, 4), ar(4), ar(2, 2)])
def foreach(x, v, w):
    torch._foreach_add_([x, v, w], 1)
    torch._foreach_mul_([x[0], v], [v, v])
    torch._foreach_copy_([w], [w.t() * 2])
    return x, w


@program(rows)
def detach_write(x, v):
    x.detach().add_(1)
    x.data.mul_(2)
    x.detach()[0].copy_(v)
    return x


@program(lambda: [ar(3, 4), ar(4)])
def swap(x, v):
    t = x[0].clone()
    x[0] = x[1]
    x[1] = t
    x[2] = v
    return x


@program(lambda: [ar(4, 4), ar(4)])
def diag(x, v):
    x.diagonal().copy_(v)
    x.diagonal(1).zero_()
    torch.diagonal(x, offset=-1).add_(1)
    x.fill_diagonal_(9.0)
    return x


@program(lambda: [ar(10), ar(3)])
def as_strided(x, v):
    w = x.as_strided((3,), (3,), 1)
    w.copy_(v)
    x.unfold(0, 2, 5)[1].mul_(2)
    return w, x


@program(lambda: [ar(3, 4), ar(3, 4)])
def where_clamp(x, y):
    x.clamp_(min=2).where(x > 3, y)
    torch.where(x > 3, x, y, out=y)
    x.masked_fill_(y > 4, 0)
    return x, y


@program(lambda: [ar(5, 4), idx(1, 3), ar(2, 4)])
def indexed(x, i, v):
    x.index_copy_(0, i, v)
    x.index_add_(0, i, v, alpha=2)
    x.index_fill_(1, i, 7.0)
    x.scatter_(0, i.view(1, 2), v[:1, :2])
    x.scatter_add_(1, i.view(1, 2), v[:1, :2])
    x.put_(i, v[0, :2])
    return x


@program(lambda: [ar(3, 4), ar(4)])
def list_out(x, v):
    x[2] = v
    return [x, (v, {"a": x[2], "b": [x * 2]})]


@program(lambda: [torch.tensor(3.0), ar(4)])
def scalar_state(x, v):
    x.add_(1)
    v *= x
    x.fill_(v[0])
    return v


@program(lambda: [torch.arange(6).view(2, 3), ar(2, 3)])
def int_state(x, y):
    x.add_(2)
    x[0] = y[1]
    x //= 2
    x <<= 1
    x.bitwise_or_(1)
    return x


@program(lambda: [torch.tensor([True, False, True]), ar(3)])
def bool_state(m, v):
    m.logical_not_()
    m |= v > 1
    m[0] = v[2]
    m ^= True
    return m


@program(lambda: [ar(3, 4).bfloat16(), ar(4)])
def bf16_state(x, v):
    x.add_(v * 1.7)
    x[0] = v
    x[1].copy_(v / 3)
    x *= 1.1
    return x.float()


@program(lambda: [ar(3, 4), ar(4)])
def sort_out(x, v):
    x.sort(1, descending=True)
    v.copy_(x.max(0).values)
    x.cumsum_(1)
    x.clamp_(0, 9)
    torch.cumsum(x, 0, out=x)
    return x, v


@program(lambda: [ar(2, 3, 4, 4), ar(4)])
def cache4(kv, v):
    k, v2 = kv[0], kv[1]
    k.view(3, 16)[:, 4:8] = v
    v2.transpose(0, 1)[2, :, 1] = 1.5
    kv.flatten(0, 1).select(0, 5)[3] = v
    return k.permute(2, 0, 1), v2.reshape(-1)[3:9]


@program(lambda: [ar(3, 4), ar(3, 4)])
def real_alias(x, y):
    z = x.reshape(12)
    w = y.contiguous().to(torch.float32)
    z[3:5] = 1
    w.add_(z.view(3, 4))
    u = x.expand_as(x)
    u.mul_(2)
    return z, w, u.squeeze()


@program(lambda: [ar(3, 1, 4), ar(4)])
def squeeze_(x, v):
    x.squeeze(1)[0] = v
    x.unsqueeze(0).squeeze().add_(1)
    x[:, -1, ::3] *= 2
    return x.squeeze(-2)


@program(lambda: [ar(4, 6), ar(6)])
def roll_copy(x, v):
    x[:-1].copy_(x[1:].clone())
    x[-1] = v
    return x


@program(lambda: [ar(3, 4), ar(4)])
def set_then_view(x, v):
    a = x.view(-1)
    b = a[2:6]
    c = b.view(2, 2)
    x[0] = v
    c[1] = 9
    a[0] = 3
    return c, b, x


@program(lambda: [ar(3, 4), ar(3, 4)])
def activations(x, y):
    torch.nn.functional.relu(x, inplace=True)
    torch.relu_(y)
    torch.nn.functional.leaky_relu_(x, 0.1)
    torch.sigmoid_(y)
    torch.nn.functional.silu(x, inplace=True)
    return x + y


@program(lambda: [ar(2, 3), ar(2, 3)])
def complex_view(x, y):
    z = torch.complex(x, y)
    z.real.mul_(2)
    z.imag[0] = 1
    r = torch.view_as_real(z)
    r[..., 1].add_(1)
    return z.abs(), r


@program(lambda: [ar(2, 3), ar(2, 3)])
def ret_input_unwritten(x, y):
    x.add_(1)
    return y, x, y.t(), y.view(-1)[2:], y[:]


@program(lambda: [ar(3, 4), ar(4)])
def inner_func(x, v):
    def g(t):
        t.add_(1)
        return t[0]

    a = g(x)
    b = g(x[1:])
    a.copy_(v)
    return a, b


@program(lambda: [ar(3, 4), ar(4)])
def set_data(x, v):
    x.zero_()
    x[1].fill_(v[1])
    x.T.copy_(x.T + 1)
    x.mT[2] = 0
    return x.H


@program(lambda: [ar(3, 4), ar(4)])
def rearr(x, v):
    x[0] = v
    torch.transpose(x, 0, 1)[3].zero_()
    torch.swapaxes(x, 0, 1)[0] = 1
    torch.narrow(x, 1, 1, 2).neg_()
    torch.select(x, 0, 1).exp_()
    x.ravel()[5] = 2
    torch.flatten(x)[6] = -1
    return x


@program(lambda: [ar(4), ar(4)])
def cross_write(x, y):
    x.copy_(y)
    y.add_(x)
    x.add_(y)
    return x, y


@program(lambda: [ar(2, 4, 4), ar(4)])
def tril(x, v):
    x[0, 0] = v
    x.tril_()
    x[1].triu_(1)
    x.clip_(max=6.0)
    x.nan_to_num_()
    x.pow_(2)
    x.sqrt_()
    x.round_()
    x.remainder_(3.0)
    x.floor_divide_(1)
    return x


@graph(lambda: [ar(3), ar(3)])
def h_kernel_inplace():
    h = Hand("c", "v")
    k = h.nki(custom_ops.k_bump, *h.ins)
    h.m("add_", k, 1)
    h.f(operator.iadd, k, h.ins[1])
    return h.out((h.m("sum", h.ins[0]),))


@graph(lambda: [ar(4, 3), ar(3)])
def h_setitems():
    h = Hand("c", "v")
    c, v = h.ins
    h.f(operator.setitem, c, (Ellipsis, 0), 1.0)
    h.f(operator.setitem, c, (slice(None, None, 2), slice(1, None)), 2.0)
    h.f(operator.setitem, c, (1, slice(None)), v)
    m = h.f(operator.gt, c, 3)
    h.f(operator.setitem, c, m, 0.0)
    h.f(operator.setitem, c, (3,), v)
    return h.out(c)


@graph(lambda: [ar(4, 3), ar(3)])
def h_iops():
    h = Hand("c", "v")
    c, v = h.ins
    a = h.f(operator.iadd, c, v)
    b = h.f(operator.imul, a, 2)
    g = h.f(operator.getitem, b, slice(1, 3))
    e = h.f(operator.isub, g, 1)
    d = h.f(operator.itruediv, e, 2)
    i = h.f(operator.ipow, d, 2)
    return h.out((i, c, a))


@graph(lambda: [ar(4, 3), ar(4, 3)])
def h_out():
    h = Hand("c", "v")
    c, v = h.ins
    h.f(torch.add, c, v, out=c)
    h.f(A.mul.out, c, v, out=c)
    h.f(torch.sub, c, 1, alpha=2, out=v)
    s = h.f(torch.max, c, 1)
    return h.out((h.f(operator.getitem, s, 0),))


@graph(lambda: [ar(4, 3), ar(4, 3)])
def h_unused_inputs():
    h = Hand("a", "c")
    c = h.ins[1]
    h.m("zero_", c)
    h.m("fill_", h.f(operator.getitem, c, 0), 3)
    return h.out((1, None, c, "x"))


@program(lambda: [ar(3, 4), ar(4)])
def noop_writes(x, v):
    x.copy_(x)
    x[:] = x
    x[0] = x[0]
    v.add_(0)
    return x


@program(lambda: [ar(4, 6), ar(6)])
def overlap_read(x, v):
    a = x[1:]
    b = a.sum(0)
    x[2] = v
    c = a[1] + b
    a.mul_(2)
    x[0] = c
    return a, c


@program(lambda: [ar(4, 4), ar(4)])
def row_col(x, v):
    x[1] = x[:, 2].clone()
    x[:, 0].copy_(x[3] + v)
    x[2] += x.diagonal()
    return x.t()


@program(lambda: [ar(6), ar(3)])
def gather_write(x, v):
    y = x[torch.tensor([0, 2])]
    y.add_(1)
    z = x[1:][[0, 1]]
    z.zero_()
    x[::2] = v
    x[1::2].mul_(v)
    return y, z


@program(lambda: [ar(2, 3, 4), ar(4)])
def einops_like(x, v):
    y = x.permute(2, 0, 1).reshape(4, 6)
    y.add_(1)
    z = x.reshape(6, 4)
    z.add_(v)
    return y, z


@program(lambda: [ar(3, 4), ar(4)])
def contiguous_noncontig(x, v):
    y = x.t().contiguous()
    y.zero_()
    z = x.contiguous()
    z[0] = v
    w = x.to(torch.float32)
    w[1] = v
    u = x.type_as(v)
    u[2] = v
    f = x.float()
    f.neg_()
    return y


@program(lambda: [torch.arange(12).view(3, 4), ar(4)])
def int_promote(x, v):
    x[0] = v
    x[1].copy_(v * 1.9)
    x.clamp_(1, 7)
    x[2] = True
    return x.double()


@program(lambda: [ar(5, 4), torch.tensor([True, False, True, False, True]), ar(4)])
def row_mask(x, m, v):
    x[m] = 0
    x[m, 1] = 2.0
    x[:, v > 1] = 3.0
    x[~m] = v
    return x.sum()


@program(lambda: [ar(5, 4), torch.tensor([4, 1]), torch.tensor([0, 3])])
def two_index(x, i, j):
    x[i, j] = 9.0
    x[i[:, None], j] += 1
    x[i, :, None] = 2.0
    x[1:, j] = 7.0
    x[..., j] -= 1
    return x


@program(lambda: [ar(1, 4), ar(4)])
def size_one(x, v):
    x[0] = v
    x.squeeze()[1] = 2
    x.expand(1, 4)[0, 2] = 3
    x.t().add_(1)
    return x.view(4), x.t()


@program(lambda: [ar(0, 4), ar(2, 4)])
def empty_state(x, y):
    x.add_(1)
    y[0:0] = 3
    y[2:] = 1
    y[5:9] = 2.0
    return x, y


@program(lambda: [ar(3, 4), ar(4)])
def repeat_views(x, v):
    y = x.repeat(1, 1)
    y.add_(1)
    z = x.broadcast_to(3, 4)
    z.mul_(2)
    s = torch.stack([x[0], v])
    s.zero_()
    c = torch.cat([x])
    c.add_(9)
    return z


@program(lambda: [ar(8), ar(2)])
def chain_narrow(x, v):
    x.narrow(0, 2, 4).narrow(0, 1, 2).copy_(v)
    x[2:][1:][:2][-1].add_(4)
    x.unfold(0, 2, 2)[2] = 7
    x.view(2, 2, 2)[1].T[0] = -1
    return x.view(2, 4)[1]


@program(lambda: [ar(3, 4), ar(3, 4), ar(3, 4)])
def three(a, b, c):
    a.copy_(b)
    b.copy_(c)
    c.copy_(a)
    return c, b, a


@program(lambda: [ar(3, 4), ar(4)])
def foreach2(x, v):
    r = list(x.unbind(0))
    torch._foreach_mul_(r, 2.0)
    torch._foreach_zero_([r[0]])
    torch._foreach_add_(r, [v, v, v], alpha=0.5)
    n = torch._foreach_neg(r)
    torch._foreach_sqrt_(r[1:2])
    return n


@program(lambda: [ar(2, 6, 2, 4), ar(2, 2, 4), torch.tensor([5, 1])])
def paged(kv, k, slots):
    flat = kv.view(2, -1, 8)
    kc, vc = flat[0], flat[1]
    kc[slots] = k.view(2, 8)
    vc.index_put_((slots,), k.view(2, 8) + 1)
    return kv[0, slots], kv


@graph(lambda: [ar(3), ar(3)])
def h_chain():
    h = Hand("c", "v")
    c, v = h.ins
    a = h.nki(k_bump, c, v)
    s = h.m("sum", c)
    b = h.nki(k_bump, a, v)
    h.m("mul_", c, 2)
    d = h.nki(k_bump, c, v)
    return h.out((s, b, h.m("sum", a), d))


@graph(lambda: [ar(4, 2), ar(4, 2), ar(2, 2), ar(2, 2), idx(3, 0)])
def h_kv_twice():
    h = Hand("kc", "vc", "k", "v", "i")
    r = h.nki(k_kv, *h.ins)
    g = h.f(operator.getitem, r, 0)
    r2 = h.nki(k_kv, g, h.f(operator.getitem, r, 1), *h.ins[2:])
    return h.out((h.m("sum", h.ins[0]), h.f(operator.getitem, r2, 1), h.f(operator.getitem, r, 0)))


@graph(lambda: [ar(2, 3), ar(3)])
def h_kernel_t():
    h = Hand("c", "v")
    t = h.m("t", h.ins[0])
    col = h.f(operator.getitem, t, (slice(None), 1))
    k = h.nki(k_bump, col, h.ins[1])
    h.m("add_", k, h.ins[1])
    return h.out((h.m("sum", h.ins[0], 1), t, k))


@graph(lambda: [ar(3), ar(3)])
def h_same_twice():
    h = Hand("c", "v")
    c, v = h.ins
    k = h.nki(k_bump, c, v)
    return h.out((k, k, c, h.m("view", k, 3), h.m("clone", k)))


@graph(lambda: [ar(3), ar(3)])
def h_swap():
    h = Hand("a", "b")
    r = h.nki(k_swap, *h.ins)
    x = h.f(operator.getitem, r, 0)
    h.m("add_", x, 1)
    h.m("mul_", h.ins[0], 3)
    return h.out((x, h.ins[1], h.f(operator.getitem, r, 1)))


@graph(lambda: [ar(3), ar(3)])
def h_kernel_iadd_res():
    h = Hand("c", "v")
    k = h.nki(k_bump, *h.ins)
    j = h.f(operator.iadd, k, 1)
    h.f(operator.setitem, j, 0, 5.0)
    n = h.m("neg", h.ins[0])
    return h.out([n])


@graph(lambda: [ar(4, 3), ar(3)])
def h_tensor_fn_targets():
    h = Hand("c", "v")
    c, v = h.ins
    h.f(torch.Tensor.add_, c, v)
    h.f(torch.Tensor.__setitem__, c, 1, v)
    h.f(torch.Tensor.copy_, h.f(torch.Tensor.__getitem__, c, 2), v)
    x = h.f(torch.Tensor.mul_, h.f(torch.Tensor.view, c, -1), 2)
    return h.out(x)


@graph(lambda: [ar(4, 3), ar(4, 3)])
def h_foreach_aten():
    h = Hand("c", "v")
    c, v = h.ins
    h.f(A._foreach_add_.Scalar, [c, v], 1)
    h.f(A._foreach_mul_.List, [h.f(A.select.int, c, 0, 1)], [h.f(A.select.int, c, 0, 2)])
    u = h.f(A.unbind.int, v, 0)
    h.f(A.zero_.default, h.f(operator.getitem, u, 3))
    h.f(A.fill_.Scalar, h.f(A.alias.default, h.f(operator.getitem, u, 0)), 4.0)
    return h.out((c,))


@graph(lambda: [ar(4, 3), ar(4, 3)])
def h_kwself():
    h = Hand("c", "v")
    c, v = h.ins
    h.f(A.add_.Tensor, self=c, other=v, alpha=2)
    h.m("index_fill_", c, dim=0, index=h.f(torch.arange, 2), value=3.0)
    h.f(torch.add, input=c, other=1, out=v)
    return h.out((v, c))


@graph(lambda: [ar(3, 4), ar(4)])
def h_names():
    h = Hand("_", "output")
    c, v = h.ins
    h.m("add_", c, v)
    h.m("add_", v, 1)
    return h.out((h.m("sum", c),))


@graph(lambda: [ar(3, 4), ar(4)])
def h_unused_write():
    h = Hand("c", "v")
    h.m("add_", h.m("select", h.ins[0], 0, 1), 1)
    return h.out(())


@graph(lambda: [ar(3, 4), ar(4)])
def h_single_nontuple():
    h = Hand("c", "v")
    h.m("add_", h.ins[0], h.ins[1])
    return h.out(h.f(operator.getitem, h.ins[0], 0))


@graph(lambda: [ar(3, 4), ar(4)])
def h_dict():
    h = Hand("c", "v")
    y = h.m("add_", h.ins[0], h.ins[1])
    return h.out([y, h.f(operator.getitem, y, 1)])
