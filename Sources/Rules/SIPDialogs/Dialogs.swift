/// The state of dialogs that their dialog tokens do not contain.
package struct Dialogs {
    /// A random number for this run of the program in dialog tokens, because connection numbers are not valid in other
    /// runs.
    package let run: UInt32
    /// The dialogs that were renewed, with their new expiry.
    package var renewals = DialogRenewals()
    package var provedPlaces = ProvedPlaces()
    package var devices = DialogDevices()

    package init(run: UInt32) { self.run = run }
}
