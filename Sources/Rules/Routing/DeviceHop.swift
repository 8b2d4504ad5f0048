package import Addressing
package import ProxyPolicy

/// The way to a registered device.
package enum DeviceHop {
    /// The flow that the device registered on. The other hop is tried if the flow is gone.
    case flow(Flow, otherwise: ResolvedHop?)
    /// A new connection to the device.
    case connection(ResolvedHop)
    /// The Path of the registration (RFC 3327).
    case path(NextHop)
    /// The device's connection is closed, and only a push can wake the device.
    case asleep
    case unreachable

    package var isReachable: Bool { if case .unreachable = self { false } else { true } }

    /// Whether the device gets a request now, without a push.
    package var isOpen: Bool {
        switch self {
        case .flow, .connection, .path: true
        case .asleep, .unreachable: false
        }
    }
}
