package import Addressing
package import Timekeeping

/// An order of a fork that carries a message to a phone.
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

/// Marks a ``ProxiedRequest`` that delivers a message to one device. It is a class, so that its place in every other call is
/// small.
package final class MessageDelivery {
    package let message: UInt64
    package let device: DeviceID
    /// When the message was sent on the flow that is tried now.
    package private(set) var triedAt: Instant

    package init(message: UInt64, device: DeviceID, triedAt: Instant) {
        self.message = message
        self.device = device
        self.triedAt = triedAt
    }

    /// The message was sent again, on another flow.
    package func tried(at instant: Instant) { triedAt = instant }
}
