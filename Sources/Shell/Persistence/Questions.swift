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
    /// All records of a call. This search is slower than the others, and is for operators.
    case call(CallRef)
    /// One record for each device that it went to.
    case push(PushCode)
    /// Requests from that address, in the form of a URI.
    case source(ByteString)
    /// Requests for that user or number, in any domain.
    case number(ByteString)
}

/// A question for push statistics, counted over the records of the timeline.
package struct StatisticsQuestion: Hashable, Sendable {
    package enum Grouping: String, Sendable {
        case push, app, day
    }

    package var by = Grouping.day
    /// Pushes requested at that time or later.
    package var from = UnixTime(milliseconds: 0)
    /// Pushes requested before that time.
    package var to = UnixTime(milliseconds: .max)
    /// The name of the app; empty for all apps.
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
        /// Unix seconds.
        package let date: Int64
        package let kind: String
        /// The name of the app. If the push went to devices of several apps, their names separated by commas.
        package let app: String
    }

    package enum Subject: Hashable, Sendable {
        case push(Push)
        case app(String)
        /// Days since 1970 UTC.
        case day(Int64)
    }

    package let subject: Subject
    /// The figures, in the order of ``names``.
    package let figures: [Int64]

    /// The names of the figures. Each figure is a number of devices.
    package static let names = ["devices", "sent", "accepted", "failed", "received", "followed", "read"]
}

/// A push that counts in the badge of its device.
package struct UnreadPush: Hashable, Sendable {
    package let code: PushCode
    package let matter: UnreadPushes.Matter
    package let device: DeviceID
    package let requestedAt: UnixTime
}
