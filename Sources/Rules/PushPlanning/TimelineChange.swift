package import Addressing
package import PushDelivery
package import Timekeeping

/// A change to the timeline. The engine never reads the timeline back.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// These pushes were read on the device. Their records exist already.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}
