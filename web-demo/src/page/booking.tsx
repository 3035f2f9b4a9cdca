/** A form of this page that has nothing to do with the chat: what an agent's frontend tool can fill in. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { Unseen } from "../view/arguments_form";
import { useTexts } from "../view/texts";

const FIELDS = [
  { name: "name", label: "bookName", type: "text", autocomplete: "name" },
  { name: "email", label: "bookEmail", type: "email", autocomplete: "email" },
  { name: "date", label: "bookDate", type: "date", autocomplete: "off" },
  { name: "guests", label: "bookGuests", type: "number", autocomplete: "off" },
  { name: "note", label: "bookNote", type: "text", autocomplete: "off" },
] as const;

export type BookingField = (typeof FIELDS)[number]["name"];
export type Booking = Readonly<Record<BookingField, string>>;

const INPUTS = {
  text: { type: "text" },
  email: { type: "email" },
  date: { type: "date" },
  number: { type: "number", min: 1, max: 20 },
};
const EMPTY: Booking = { name: "", email: "", date: "", guests: "", note: "" };

export const booking = signal<Booking>(EMPTY);
/** Which fields were filled last by somebody else than the person. */
const filled = signal<ReadonlySet<BookingField>>(new Set());
const booked = signal("");

/** Puts the values into the form; fields that it does not have are left out. Gives what was filled in. */
export function fillBooking(values: Readonly<Record<string, unknown>>): BookingField[] {
  const names = FIELDS.map((field) => field.name).filter((name) => values[name] !== undefined && values[name] !== null);
  booking.value = { ...booking.peek(), ...Object.fromEntries(names.map((name) => [name, String(values[name])])) };
  booked.value = "";
  filled.value = new Set(names);
  return names;
}

export function BookingForm() {
  const id = useId();
  const { say, language } = useTexts();
  const values = booking.value;
  const book = (event: Event) => {
    event.preventDefault();
    const date = new Intl.DateTimeFormat(language, { dateStyle: "long", timeZone: "UTC" }).format(
      new Date(values.date),
    );
    booked.value = say("booked", { guests: Number(values.guests || 1), date });
  };
  const change = (name: BookingField, value: string) => {
    booking.value = { ...booking.peek(), [name]: value };
    booked.value = "";
  };
  return (
    <form class="page-booking" data-part="booking form" aria-labelledby={id} onSubmit={book}>
      <h2 id={id}>{say("bookTitle")}</h2>
      <p class="agui-hint">{say("bookHint")}</p>
      {FIELDS.map(({ name, label, type, autocomplete }) => (
        <label key={name} data-filled={filled.value.has(name) || undefined}>
          {say(label)}
          <input
            {...(INPUTS[type] as JSX.IntrinsicElements["input"])}
            name={name}
            autocomplete={autocomplete}
            required={name === "name" || name === "date"}
            value={values[name]}
            onInput={(event) => change(name, event.currentTarget.value)}
          />
          <Unseen value={values[name]} />
        </label>
      ))}
      <button type="submit" class="agui-button agui-primary">
        {say("book")}
      </button>
      <p role="status" class="agui-hint">
        {booked}
      </p>
    </form>
  );
}
