package import Addressing
package import Timekeeping

/// The end of a message's delivery to a phone, with the last ``Fork/Order``.
package struct EndedDelivery {
    package let delivery: MessageDelivery
    package let call: ProxiedRequest
    package let order: Fork.Order

    package init(_ delivery: MessageDelivery, of call: ProxiedRequest, _ order: Fork.Order) {
        self.delivery = delivery
        self.call = call
        self.order = order
    }
}

/// Marks a ``ProxiedRequest`` that delivers a stored or waiting message to one device. ``MessageDelivery`` is a class,
/// so that calls without a message need no memory for the delivery.
package final class MessageDelivery {
    package let message: UInt64
    package let device: DeviceID
    /// The time at which the message was last sent.
    package private(set) var triedAt: Instant

    package init(message: UInt64, device: DeviceID, triedAt: Instant) {
        self.message = message
        self.device = device
        self.triedAt = triedAt
    }

    /// Notes that the message was sent again, on another flow.
    package func tried(at instant: Instant) { triedAt = instant }
}
