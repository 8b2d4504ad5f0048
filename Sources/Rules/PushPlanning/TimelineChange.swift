package import Addressing
package import PushDelivery
package import Timekeeping

/// A change to the timeline; operators read the timeline, and the engine never reads it.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// The user has read the given pushes on the device; the timeline records of the pushes are already in the store.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
