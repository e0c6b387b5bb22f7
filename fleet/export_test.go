package fleet

// Script is the script.
var Script = script
