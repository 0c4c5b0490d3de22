; SPDX-License-Identifier: Apache-2.0
; Factors of a product of two primes: bit-vector multiplication, solved by bit-blasting and SAT.
(set-logic QF_BV)
(declare-const x (_ BitVec 24))
(declare-const y (_ BitVec 24))
(assert (= (bvmul x y) (_ bv2076133 24)))
(assert (bvult x (_ bv4096 24)))
(assert (bvult y (_ bv4096 24)))
(assert (bvugt x (_ bv1 24)))
(assert (bvugt y (_ bv1 24)))
(check-sat)
