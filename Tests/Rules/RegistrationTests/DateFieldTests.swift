import Bytes
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite("Date in a 200 to REGISTER")
struct DateFieldTests {
    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"), (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (4_102_444_800, "Fri, 01 Jan 2100 00:00:00 GMT"),
    ])
    func `is written as RFC 1123 has it`(seconds: Int64, text: String) {
        var date = DateField()
        #expect(date.field(at: UnixTime(seconds: seconds)).value.string == text)
    }

    @Test func `moves with the clock, and only by whole seconds`() {
        var date = DateField()
        #expect(date.field(at: UnixTime(milliseconds: 1999)).value.string.hasSuffix("00:00:01 GMT"))
        #expect(date.field(at: UnixTime(milliseconds: 2000)).value.string.hasSuffix("00:00:02 GMT"))
        #expect(date.field(at: UnixTime(milliseconds: 1000)).value.string.hasSuffix("00:00:01 GMT"))
    }
}
