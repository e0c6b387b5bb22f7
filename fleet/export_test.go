package fleet

// Script is the script.
var Script = script

// Check returns an error if a reply makes no sense.
var Check = check
