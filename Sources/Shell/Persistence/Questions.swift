package import Addressing
package import Bytes
package import Collections
package import PushDelivery
package import Registration
package import Timekeeping

/// The subject of a search in the timeline, which selects the records.
package enum TimelineSubject: Hashable, Sendable {
    case user(AddressOfRecord)
    case callID(ByteString)
    /// All records of a call. A search by call is slow, and only operators order it.
    case call(CallRef)
    /// The records of one push: one for each device to which it was sent.
    case push(PushCode)
    /// Requests from this address. The text has the form that a host has in a URI.
    case source(ByteString)
    /// Requests for this user or number, in any domain.
    case number(ByteString)
}

/// A request for push statistics, which are counted over the records of the timeline.
package struct StatisticsQuestion: Hashable, Sendable {
    package enum Grouping: String, Sendable {
        case push, app, day
    }

    package var by = Grouping.day
    /// The earliest time of a request: only pushes that were requested at this time or later count.
    package var from = UnixTime(milliseconds: 0)
    /// The end of the time range: only pushes that were requested before this time count.
    package var to = UnixTime(milliseconds: .max)
    /// The name of the app whose pushes count; empty for all apps.
    package var app = ""
    package var after = PageCursor.beginning
    /// The maximum number of pushes on a page. All apps or days are on one page.
    package var limit = 1000

    package init() {}
}

/// The figures of one push, app or day.
package struct StatisticsRow: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let code: String
        /// When the push was requested, in Unix seconds.
        package let date: Int64
        package let kind: String
        /// The name of the app. If the push was sent to devices of several apps, their names are separated by commas.
        package let app: String
    }

    package enum Subject: Hashable, Sendable {
        case push(Push)
        case app(String)
        /// Days since 1970 UTC.
        case day(Int64)
    }

    package let subject: Subject
    /// The counted values of the row, in the order of ``names``.
    package let figures: [Int64]

    /// The names of the figures. Each of these numbers counts devices.
    package static let names = ["devices", "sent", "accepted", "failed", "received", "followed", "read"]
}

/// A push that its device has not read. An unread push counts in the device's badge.
package struct UnreadPush: Hashable, Sendable {
    package let code: PushCode
    package let matter: UnreadPushes.Matter
    package let device: DeviceID
    package let requestedAt: UnixTime
}
