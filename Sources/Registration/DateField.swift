import Bytes
package import SIPGrammar
package import Timekeeping

/// The `Date` of a 200 to REGISTER, by which phones set their clocks (RFC 3261 section 10.3 step 8, section 20.17).
///
/// Written once a second, however many ask.
package struct DateField: Sendable {
    private var second = Int64.min
    private var text = ByteString.empty

    package init() {}

    /// Such as `Sat, 13 Nov 2010 23:29:00 GMT`.
    package mutating func field(at date: UnixTime) -> AddedField {
        if date.seconds != second {
            second = date.seconds
            text = Self.text(of: date.civil)
        }
        return AddedField("Date", text)
    }

    private static let weekdays: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months: [StaticString] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func text(of date: CivilDate) -> ByteString {
        var out: [UInt8] = []
        out.reserveCapacity(32)
        out.append(weekdays[Int(date.weekday)])
        out.append(", ")
        out.append(twoDigits: date.day)
        out.append(" ")
        out.append(months[Int(date.month - 1)])
        out.append(" ")
        out.append(twoDigits: date.year / 100)
        out.append(twoDigits: date.year % 100)
        out.append(" ")
        out.append(twoDigits: date.secondOfDay / 3600)
        out.append(":")
        out.append(twoDigits: date.secondOfDay / 60 % 60)
        out.append(":")
        out.append(twoDigits: date.secondOfDay % 60)
        out.append(" GMT")
        return ByteString(out)
    }
}

extension [UInt8] {
    fileprivate mutating func append(twoDigits value: Int64) {
        if value < 10 { append("0") }
        append(decimal: UInt64(value.magnitude))
    }
}
