package render

import (
	"bytes"

	"github.com/aipctl/aipctl/internal/jq"
	"github.com/aipctl/aipctl/internal/sanitize"
)

// filtered gives what an expression makes of a record: a line for each result.
// A string is text, and cleaned like any other text, so that a value that is
// taken out of a record is no way around the escapes of JSON; everything else
// is JSON as records are.
func (c *console) filtered(line []byte) ([]byte, error) {
	values, err := c.filter.Apply(c.out.gone, line)
	if err != nil {
		if c.out.gone.Err() != nil {
			return nil, abandoned()
		}
		return nil, err
	}
	var b bytes.Buffer
	for _, v := range values {
		b.Write(filteredLine(v))
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func filteredLine(v jq.Value) []byte {
	if v.JSON == nil {
		return []byte(sanitize.Block(v.Text).String())
	}
	return escape(v.JSON)
}
