package deliveryqueue

const workerStore = "DELIVERYQUEUE_TEST_STORE"

func workUntilKilled() int { return 0 }
