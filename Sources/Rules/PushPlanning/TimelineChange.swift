package import Addressing
package import PushDelivery
package import Timekeeping

/// A change to the timeline, which operators read but the engine never reads.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// The user has read the given pushes on the device, whose timeline records are already in the store.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
