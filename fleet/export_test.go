package fleet

// Script is the script.
var Script = script

// Check returns an error if a reply makes no sense.
var Check = check

// RenewIn and FirstToken are those of a Fleet whose client is no schedule.
var RenewIn, FirstToken = random{}.RenewIn, random{}.FirstToken
