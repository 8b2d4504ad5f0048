package import Addressing
package import Bytes
package import Collections
package import PushDelivery
package import Registration
package import Timekeeping

/// The subject of a search in the timeline.
package enum TimelineSubject: Hashable, Sendable {
    case user(AddressOfRecord)
    case callID(ByteString)
    /// Selects all timeline records of a call. The search for a call is slow, because the timeline has no index of
    /// calls.
    case call(CallRef)
    /// Selects the records of one push: one record for each device to which the push was sent.
    case push(PushCode)
    /// Selects requests from the given IP address, written like a host in a URI.
    case source(ByteString)
    /// Selects requests for the given user or telephone number, in any domain.
    case number(ByteString)
}

/// A query for push statistics, which are counted over timeline records.
package struct StatisticsQuestion: Hashable, Sendable {
    package enum Grouping: String, Sendable {
        case push, app, day
    }

    package var by = Grouping.day
    /// The start of the time range: pushes that were requested earlier do not count.
    package var from = UnixTime(milliseconds: 0)
    /// The end of the time range: pushes that were requested at the end or later do not count.
    package var to = UnixTime(milliseconds: .max)
    /// The name of the app whose pushes count; if empty, the pushes of all apps count.
    package var app = ""
    /// The domains whose users' pushes count; if `nil`, all pushes count, including pushes to no user.
    package var domains: [ByteString]?
    package var after = PageCursor.beginning
    /// The maximum number of pushes on one page of a list. Statistics of apps or days are always on one page.
    package var limit = 1000

    package init() {}
}

/// The statistics of one push, one app or one day.
package struct StatisticsRow: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let code: String
        /// The time at which the push was requested, in Unix seconds.
        package let date: Int64
        package let kind: String
        /// The app of the push; several names with commas if devices of several apps got the push.
        package let app: String
    }

    package enum Subject: Hashable, Sendable {
        case push(Push)
        case app(String)
        /// The number of days since 1970 in UTC.
        case day(Int64)
    }

    package let subject: Subject
    /// The counted values of the row, in the order of ``names``.
    package let figures: [Int64]

    /// The names of the counted values, each of which is a number of devices.
    package static let names = ["devices", "sent", "accepted", "failed", "received", "followed", "read"]
}

/// A push that the device has not read, and that counts in the device's badge.
package struct UnreadPush: Hashable, Sendable {
    package let code: PushCode
    package let matter: UnreadPushes.Matter
    package let device: DeviceID
    package let requestedAt: UnixTime
}
