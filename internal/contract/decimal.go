package contract

import (
	"math/big"
	"strconv"
	"strings"
)

// decimal is a JSON number without loss, whatever its size: 0.DIGITS times ten
// to the power of exp. The digits neither begin nor end with a zero, so equal
// numbers have equal fields, and zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exp      int64
}

// mostExponent is where exponents stop to grow. Numbers beyond it are alike
// only to each other, which no schema can tell.
const mostExponent = 1 << 60

// parseDecimal reads a JSON number; the literal is one already.
func parseDecimal(literal string) decimal {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, power := rest, int64(0)
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		// What does not fit comes back as the nearest that does.
		power, _ = strconv.ParseInt(strings.TrimPrefix(rest[i+1:], "+"), 10, 64)
		power = max(-mostExponent, min(mostExponent, power))
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	exp := int64(len(whole)) + power
	trimmed := strings.TrimLeft(digits, "0")
	exp -= int64(len(digits) - len(trimmed))
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return decimal{}
	}
	return decimal{negative, trimmed, exp}
}

// isInteger says whether the number is whole, however it was written.
func (d decimal) isInteger() bool { return int64(len(d.digits)) <= d.exp || d.digits == "" }

// compare returns -1, 0 or 1.
func (d decimal) compare(o decimal) int {
	sign := func(x decimal) int {
		switch {
		case x.digits == "":
			return 0
		case x.negative:
			return -1
		}
		return 1
	}
	a, b := sign(d), sign(o)
	switch {
	case a != b:
		if a < b {
			return -1
		}
		return 1
	case d == o:
		return 0
	case d.exp != o.exp:
		if d.exp < o.exp {
			return -a
		}
		return a
	}
	// The same power of ten: digits behind the point compare as text.
	return a * strings.Compare(d.digits, o.digits)
}

// multipleOf says whether d is m times a whole number. It takes no more memory
// than the digits, whatever the exponents are.
func (d decimal) multipleOf(m decimal) bool {
	if d.digits == "" {
		return true
	}
	if m.digits == "" {
		return false
	}
	x, _ := new(big.Int).SetString(d.digits, 10)
	y, _ := new(big.Int).SetString(m.digits, 10)
	// d is x times ten to the a, m is y times ten to the b.
	shift := (d.exp - int64(len(d.digits))) - (m.exp - int64(len(m.digits)))
	if shift < 0 {
		// x would have to end in zeros, and it does not.
		return false
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(shift), y)
	return x.Mul(x, power).Mod(x, y).Sign() == 0
}
