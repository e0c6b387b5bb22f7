package deliver

import "example.com/awsretry/deliveryqueue"

var _ = deliveryqueue.Open
