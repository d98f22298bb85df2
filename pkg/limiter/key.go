package limiter

import "strings"

const maxKey = 64 << 10 // bytes of a client's id

var escapes = strings.NewReplacer("%", "%25", "}", "%7D")

// keyOf returns PREFIX:{CLIENT}:LIMITER. The client's id is escaped so that the first } ends the hash tag: distinct
// clients never share a key, and all keys of a client lie in one slot of a cluster, whatever bytes the id has.
func keyOf(prefix, client, limiter string) string {
	if strings.ContainsAny(client, "%}") {
		client = escapes.Replace(client)
	}
	return prefix + ":{" + client + "}:" + limiter
}

// Key returns the key under which a limiter of that name keeps what client has used: PREFIX:{CLIENT}:LIMITER. Bytes
// % and } of the client's id are escaped as %25 and %7D. The id must be 1 to 65536 bytes and the prefix without {.
func Key(prefix, client, limiter string) (string, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	if err := checkClient(client); err != nil {
		return "", err
	}
	return keyOf(prefix, client, limiter), nil
}

func checkPrefix(prefix string) error {
	if strings.Contains(prefix, "{") {
		return &FieldError{"prefix", "must not contain {, which would move the hash tag"}
	}
	return nil
}

func checkClient(client string) error {
	if client == "" || len(client) > maxKey {
		return &FieldError{"key", "must be 1 to 65536 bytes"}
	}
	return nil
}
