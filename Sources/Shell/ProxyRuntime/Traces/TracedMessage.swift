import Addressing

/// A message that was read from a socket or written to one, with its addresses.
struct TracedMessage {
    let source: Endpoint
    let target: Endpoint
    let transport: Transport
    let isIncoming: Bool
    /// The time of the message in microseconds since 1970.
    let time: Int64
}

/// A step of a push, or of the call for which the push was sent.
struct TracedStep {
    let time: Int64
    let callID: [UInt8]
    /// The step of a push as one line of JSON.
    let json: [UInt8]
}
