// SPDX-License-Identifier: Apache-2.0
//! Empty: the dependencies are what this package is for.
