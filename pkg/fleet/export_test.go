package fleet

import "encoding/json"

// Carried is what becomes of an error that a worker tells.
func Carried(err error) (error, error) {
	line, failed := json.Marshal(newFault(err))
	var f fault
	if failed == nil {
		failed = json.Unmarshal(line, &f)
	}
	return f.err(), failed
}
