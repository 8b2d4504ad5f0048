import Bytes
package import SIPGrammar
package import Timekeeping

/// The `Date` header field of a 200 to a REGISTER, from which phones set their clocks (RFC 3261 section 10.3 step 8,
/// section 20.17).
///
/// The text of the `Date` field is made at most once a second, for any number of REGISTERs.
package struct DateField: Sendable {
    private var second = Int64.min
    private var text = ByteString.empty

    package init() {}

    /// The header field `Date` for a time, for example `Sat, 13 Nov 2010 23:29:00 GMT`.
    package mutating func field(at date: UnixTime) -> AddedField {
        if date.seconds != second {
            second = date.seconds
            text = ByteString(date.civil.headerText)
        }
        return AddedField("Date", text)
    }
}
