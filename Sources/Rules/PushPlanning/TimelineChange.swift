package import Addressing
package import PushDelivery
package import Timekeeping

/// A change to the timeline, which operators read but the engine never reads.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// The user has read these pushes on the device, and their records are in the store already.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
