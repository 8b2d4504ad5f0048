package import Addressing
package import PushDelivery
package import Timekeeping

/// A change of the timeline, which operators read and the engine never reads.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// The user has read the given pushes on the device; the timeline records of the pushes are already in the store.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
