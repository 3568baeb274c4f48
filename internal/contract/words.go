package contract

import (
	"strconv"
	"strings"
)

// isOneOf says whether a value has one of the types.
func isOneOf(v value, types []string) bool {
	for _, t := range types {
		if v.is(t) {
			return true
		}
	}
	return false
}

// typeName is the type of a value as a person would say it.
func typeName(v value) string {
	switch v.kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		if v.number.isInteger() {
			return "an integer"
		}
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

// String writes the number in the shortest plain way.
func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	const plain = 21 // digits before the point, and zeros behind it
	n := int64(len(d.digits))
	switch {
	case n == 0:
		return "0"
	case n > 40:
		return sign + d.digits[:40] + "…e" + strconv.FormatInt(d.exp-40, 10)
	case d.exp >= n && d.exp <= plain:
		return sign + d.digits + strings.Repeat("0", int(d.exp-n))
	case d.exp > 0 && d.exp < n:
		return sign + d.digits[:d.exp] + "." + d.digits[d.exp:]
	case d.exp <= 0 && d.exp > -plain:
		return sign + "0." + strings.Repeat("0", int(-d.exp)) + d.digits
	}
	return sign + d.digits + "e" + strconv.FormatInt(d.exp-n, 10)
}

// literal is a value of a schema, shortened.
func literal(v value) string {
	switch v.kind {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	case '"':
		return strconv.Quote(short(v.text))
	case '0':
		return v.number.String()
	case '[':
		return "the array of the schema"
	default:
		return "the object of the schema"
	}
}

// literals are the first of several values.
func literals(list []value) string {
	const most = 6
	var out []string
	for i, v := range list {
		if i == most {
			out = append(out, "and "+strconv.Itoa(len(list)-most)+" more")
			break
		}
		out = append(out, literal(v))
	}
	if len(out) == 0 {
		return "nothing, which the schema allows"
	}
	return strings.Join(out, ", ")
}

func amount(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return amountOf(n) + " " + of + "s"
}

func amountOf(n int64) string { return strconv.FormatInt(n, 10) }
