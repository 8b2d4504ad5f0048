package import Addressing
package import ProxyPolicy

/// How a request reaches a registered device: on a flow, on a new connection, through a Path, or only after a push.
package enum DeviceHop {
    /// The request is sent on the flow of the device's registration; if the flow has ended, to the hop `otherwise`.
    case flow(Flow, otherwise: ResolvedHop?)
    /// The request needs a new connection to the device.
    case connection(ResolvedHop)
    /// The first hop of the registration's Path (RFC 3327).
    case path(NextHop)
    /// The device has no open connection, and only a push can wake the device.
    case asleep
    case unreachable

    package var isReachable: Bool { if case .unreachable = self { false } else { true } }

    /// Whether a request reaches the device now, without a push.
    package var isOpen: Bool {
        switch self {
        case .flow, .connection, .path: true
        case .asleep, .unreachable: false
        }
    }
}
