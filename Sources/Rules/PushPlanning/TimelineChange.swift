package import Addressing
package import PushDelivery
package import Timekeeping

/// A change to the timeline. The engine never reads the timeline; operators do.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// The user has read these pushes on the device. Their records are in the store already.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
