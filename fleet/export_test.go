package fleet

// Script is the script.
var Script = script

// Check is check, which returns an error if a reply makes no sense.
var Check = check

// RenewIn and FirstToken are the methods of the schedule of a Fleet from New.
var RenewIn, FirstToken = random{}.RenewIn, random{}.FirstToken
